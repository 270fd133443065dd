"""Engine memory on GPUs: opened by CUDA IPC, copied by the GPU's copy engines on threads and streams of its own."""
