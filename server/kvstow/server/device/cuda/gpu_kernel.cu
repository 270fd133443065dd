/* Copies between a GPU and page-locked host memory by multiprocessors, where the setting `cuda_copies` is `kernel`.
 *
 * `orders` is `count` addresses to copy from, then as many to copy to, then as many lengths. Blocks of threads take orders
 * in turn. Where all numbers of an order are multiples of 16, each thread has four reads of 16 bytes on their way over the
 * bus before it writes. C, so that tests can run it on a CPU; `make gpu-kernel` makes gpu_kernel.ptx of it.
 */
#ifdef __cplusplus
extern "C"
#endif
__global__ void __launch_bounds__(256) kvstow_copy(const unsigned long long *orders, unsigned int count)
{
    for (unsigned int at = blockIdx.x; at < count; at += gridDim.x) {
        const unsigned long long source = orders[at];
        const unsigned long long target = orders[count + at];
        const unsigned long long size = orders[2ULL * count + at];
        if (((source | target | size) & 15) == 0) {
            const uint4 *from = (const uint4 *)source;
            uint4 *to = (uint4 *)target;
            const unsigned long long end = size / 16;
            for (unsigned long long i = threadIdx.x; i < end; i += 4 * blockDim.x) {
                uint4 part[4];
                for (int k = 0; k < 4; k++)
                    if (i + k * blockDim.x < end)
                        part[k] = from[i + k * blockDim.x];
                for (int k = 0; k < 4; k++)
                    if (i + k * blockDim.x < end)
                        to[i + k * blockDim.x] = part[k];
            }
        } else {
            const unsigned char *from = (const unsigned char *)source;
            unsigned char *to = (unsigned char *)target;
            for (unsigned long long i = threadIdx.x; i < size; i += blockDim.x)
                to[i] = from[i];
        }
    }
}
