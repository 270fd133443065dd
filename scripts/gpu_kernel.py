"""Makes the PTX of the GPU kernel from its source, and has it assembled for every architecture that it is to run on.

    python scripts/gpu_kernel.py TOOLS [--check]

TOOLS is a folder with NVIDIA's packages `nvidia-cuda-nvrtc-cu11` and `nvidia-cuda-nvcc-cu12`, as `pip install --target` lays
them out; no GPU is needed. An old compiler is taken on purpose: a driver loads PTX of its own time and before. With --check
nothing is written, and what is there has to be what would be.
"""

import ctypes
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path("server/kvstow/server/device/cuda/gpu_kernel.cu")
PTX = SOURCE.with_suffix(".ptx")
VIRTUAL = "compute_75"
"""Turing: the oldest that current drivers support."""

REAL = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


def header(source: str) -> str:
    """Which source some PTX was made from."""
    digest = hashlib.sha256(source.encode()).hexdigest()
    return f"// made by scripts/gpu_kernel.py from {SOURCE.name} with SHA-256 {digest}\n"


def compiled(tools: Path, source: str) -> str:
    """What NVRTC makes of a source."""
    (library,) = tools.glob("nvidia/cuda_nvrtc/lib/libnvrtc.so.*")
    nvrtc = ctypes.CDLL(str(library))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    option = (ctypes.c_char_p * 1)(f"--gpu-architecture={VIRTUAL}".encode())
    name = SOURCE.name.encode()
    _call(nvrtc, "nvrtcCreateProgram", ctypes.byref(program), source.encode(), name, 0, None, None)
    _call(nvrtc, "nvrtcCompileProgram", program, 1, option)
    _call(nvrtc, "nvrtcGetPTXSize", program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    _call(nvrtc, "nvrtcGetPTX", program, text)
    return text.value.decode()


def _call(nvrtc: ctypes.CDLL, name: str, *arguments: object) -> None:
    if code := nvrtc[name](*arguments):
        raise SystemExit(f"{name} says {code}")


def assemble(tools: Path, ptx: Path) -> None:
    """Have machine code made for every real architecture."""
    (assembler,) = tools.glob("nvidia/cuda_nvcc/bin/ptxas")
    assembler.chmod(0o755)  # packages lose the right to run
    with tempfile.TemporaryDirectory() as directory:
        for real in REAL:
            target = Path(directory, f"{real}.cubin")
            command = [str(assembler), f"--gpu-name={real}", "-o", str(target), str(ptx)]
            subprocess.run(command, check=True)
            print(f"{real}: {target.stat().st_size} bytes")


def main(arguments: list[str]) -> int:
    """Write or compare, then assemble."""
    tools, check = Path(arguments[0]), "--check" in arguments
    source = SOURCE.read_text(encoding="utf-8")
    made = header(source) + compiled(tools, source)
    if not check:
        PTX.write_text(made, encoding="utf-8")
    elif PTX.read_text(encoding="utf-8") != made:
        print(f"{PTX} is not what {SOURCE} gives: run make gpu-kernel", file=sys.stderr)
        return 1
    assemble(tools, PTX)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
