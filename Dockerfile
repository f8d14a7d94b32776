# kgen with a C compiler and OpenCL on the processor (PoCL):
#   docker build -t kgen . && docker run --rm -it kgen
#   docker run --rm kgen kgen doctor
FROM python:3.13-slim-trixie

RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        cmake g++ gcc gfortran libc6-dev make ocl-icd-opencl-dev opencl-c-headers pocl-opencl-icd \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /kgen
COPY pyproject.toml README.md LICENSE ./
COPY kgen ./kgen
RUN pip install --no-cache-dir '.[opencl,plot,tune]'
COPY examples /examples
RUN useradd --create-home user
USER user
WORKDIR /home/user
CMD ["python"]
