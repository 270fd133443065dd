"""`kvstow doctor`: looks at this machine and at the daemon, and says what goes wrong and what to change.

`machine` reads the kernel's files below a root, `scene` gathers what is known of the daemon, and every check is a pure
function of a scene that gives one finding, or none where it does not apply. `examination` lists the checks.
"""
