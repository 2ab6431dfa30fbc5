// A process that gets no further threads, for as long as the object lives.
//
//   const ScarceThreads scarce(1);    // one more can be had, then EAGAIN
//
// Thread: one object at a time; counts the threads that any thread starts. scarce_threads.cc takes
// pthread_create's place in the program that links it.
#pragma once

namespace stepgate::hostnccl::test {

class ScarceThreads {
 public:
  explicit ScarceThreads(int left);
  ~ScarceThreads();
  ScarceThreads(const ScarceThreads&) = delete;
  ScarceThreads& operator=(const ScarceThreads&) = delete;
};

}  // namespace stepgate::hostnccl::test
