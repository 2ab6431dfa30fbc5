#include "collectives/ucx/protocol.h"

namespace stepgate::transport {
namespace {

struct FailureHeader {
  int32_t status;
  int32_t culprit;
};

}  // namespace

std::string pack_failure(const Failure& failure) {
  return pack(FailureHeader{failure.status, failure.culprit}) + failure.message;
}

bool unpack_failure(const std::string& body, Failure* failure) {
  FailureHeader header;
  if (!unpack(body.substr(0, sizeof header), &header)) return false;
  if (header.status <= SGT_IN_PROGRESS || header.status > SGT_VERSION) return false;
  *failure = {static_cast<sgt_status>(header.status), header.culprit, body.substr(sizeof header)};
  return true;
}

std::string pack_list(const std::vector<std::string>& items) {
  std::string body;
  for (const std::string& item : items) body += pack(static_cast<uint32_t>(item.size())) + item;
  return body;
}

bool unpack_list(const std::string& body, std::vector<std::string>* items) {
  items->clear();
  size_t at = 0;
  while (at < body.size()) {
    uint32_t length;
    if (!unpack(body.substr(at, sizeof length), &length)) return false;
    at += sizeof length;
    if (body.size() - at < length) return false;
    items->push_back(body.substr(at, length));
    at += length;
  }
  return true;
}

}  // namespace stepgate::transport
