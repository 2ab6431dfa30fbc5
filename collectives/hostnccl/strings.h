// ncclGetErrorString's sentences, for any number. Static storage, any thread.
#pragma once

namespace stepgate::hostnccl {

const char* describe(int result) noexcept;

}  // namespace stepgate::hostnccl
