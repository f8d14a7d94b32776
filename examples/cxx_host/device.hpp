// Arrays on a device, and how to run a kernel there: the host, or with USE_OPENCL or USE_CUDA one of
// these. The programs beside this are the same for all of them.
#pragma once

#include "pde.hpp"
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#if defined(USE_OPENCL)
#include <CL/cl.h>

inline void check(cl_int error)
{
  if (error != CL_SUCCESS) {
    std::fprintf(stderr, "OpenCL error %d\n", error);
    std::exit(1);
  }
}

class Device {
public:
  Device()
  {
    cl_platform_id platform;
    cl_device_id device;
    cl_int error;
    check(clGetPlatformIDs(1, &platform, nullptr));
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr));
    context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
    check(error);
    queue = clCreateCommandQueue(context, device, 0, &error);
    check(error);
  }
  Device(Device const &) = delete;
  Device &operator=(Device const &) = delete;
  ~Device()
  {
    pde_opencl_release(context);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
  }

  template <class Call> void run(Call &&call) const { call(queue); }

  cl_context context;
  cl_command_queue queue;
};

template <class T> class Array {
public:
  Array(Device const &device, std::vector<T> const &values)
      : device(&device), count(values.size())
  {
    cl_int error;
    cl_mem_flags const flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
    memory = clCreateBuffer(device.context, flags, count * sizeof(T),
                            const_cast<T *>(values.data()), &error);
    check(error);
  }
  Array(Array const &) = delete;
  Array &operator=(Array const &) = delete;
  ~Array() { clReleaseMemObject(memory); }
  void swap(Array &other) { std::swap(memory, other.memory); }

  std::vector<T> get() const
  {
    std::vector<T> values(count);
    check(clEnqueueReadBuffer(device->queue, memory, CL_TRUE, 0, count * sizeof(T), values.data(),
                              0, nullptr, nullptr));
    return values;
  }

  template <class... Extents> auto operator()(Extents... extents) const
  {
    return pde::buffer_view<T, sizeof...(Extents)>(memory, {extents...});
  }

private:
  Device const *device;
  std::size_t count;
  cl_mem memory;
};

#elif defined(USE_CUDA)
#include <cuda_runtime_api.h>

inline void check(cudaError_t error)
{
  if (error != cudaSuccess) {
    std::fprintf(stderr, "CUDA error: %s\n", cudaGetErrorString(error));
    std::exit(1);
  }
}

class Device {
public:
  Device() { check(cudaStreamCreate(&stream)); }
  Device(Device const &) = delete;
  Device &operator=(Device const &) = delete;
  ~Device() { cudaStreamDestroy(stream); }

  template <class Call> void run(Call &&call) const { call(stream); }

  cudaStream_t stream;
};

template <class T> class Array {
public:
  Array(Device const &device, std::vector<T> const &values)
      : device(&device), count(values.size())
  {
    check(cudaMalloc(reinterpret_cast<void **>(&memory), count * sizeof(T)));
    check(cudaMemcpy(memory, values.data(), count * sizeof(T), cudaMemcpyHostToDevice));
  }
  Array(Array const &) = delete;
  Array &operator=(Array const &) = delete;
  ~Array() { cudaFree(memory); }
  void swap(Array &other) { std::swap(memory, other.memory); }

  std::vector<T> get() const
  {
    std::vector<T> values(count);
    check(cudaMemcpyAsync(values.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost,
                          device->stream));
    check(cudaStreamSynchronize(device->stream));
    return values;
  }

  template <class... Extents> auto operator()(Extents... extents) const
  {
    return pde::device_view<T, sizeof...(Extents)>(memory, {extents...});
  }

private:
  Device const *device;
  std::size_t count;
  T *memory;
};

#else

class Device {
public:
  template <class Call> void run(Call &&call) const { call(); }
};

template <class T> class Array {
public:
  Array(Device const &, std::vector<T> const &values) : values(values) {}
  void swap(Array &other) { values.swap(other.values); }
  std::vector<T> get() const { return values; }

  template <class... Extents> auto operator()(Extents... extents)
  {
    return pde::view<T, sizeof...(Extents)>(values.data(), {extents...});
  }

private:
  std::vector<T> values;
};

#endif
