#ifndef DEMO_H
#define DEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What each function returns. */
typedef enum demo_status {
  demo_success = 0, /* the kernel was launched */
  demo_null_pointer = 1, /* an array is a null pointer */
  demo_invalid_size = 2, /* a number is outside of its range, or an extent is negative */
  demo_broken_assumption = 3, /* the sizes break an assumption that the kernel was made with */
  demo_misaligned = 4, /* an array does not begin at a multiple of its alignment */
  demo_overlap = 5, /* an array that is written overlaps with another one */
  demo_out_of_memory = 6, /* there is no memory for temporary arrays */
  demo_out_of_bounds = 7, /* a subscript read from an array is outside of the array it is for */
  demo_opencl_error = 8, /* a function of OpenCL failed */
  demo_cuda_error = 9, /* a function of CUDA failed */
  demo_invalid_layout = 10 /* an array has another shape or other strides than the kernel's */
} demo_status;

/* What a status means. */
char const *demo_status_text(demo_status status);

/* What was wrong in the last call of this thread that failed: kernel and argument. */
char const *demo_last_message(void);

/* matmul
 *
 * a: float32, n x n elements, row-major; read
 * b: float32, n x n elements, row-major; read
 * c: float32, n x n elements, row-major; written
 * n: int32, in [0, 2146435072]
 *
 * It is assumed that n >= 1.
 *
 * Arrays that are written must not overlap with others.
 */
demo_status demo_matmul(float const *a, float const *b, float *c, int32_t n);

#ifdef __cplusplus
}
#endif

#endif
