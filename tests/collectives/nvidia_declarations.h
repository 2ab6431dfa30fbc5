// What it takes to compare our own declarations of CUDA's driver with NVIDIA's cuda.h, function by function.
#pragma once

#include <type_traits>

namespace stepgate::test {

// Enumerations pass as int; everything else must be the very type.
template <class T, class = void>
struct Plain {
  using type = T;
};
template <class T>
struct Plain<T, std::enable_if_t<std::is_enum_v<T>>> {
  static_assert(sizeof(T) == sizeof(int));
  using type = int;
};
template <class T>
struct Plain<T*, std::enable_if_t<!std::is_function_v<T>>> {
  using type = typename Plain<T>::type*;
};
template <class R, class... P>
struct Plain<R(P...), void> {
  using type = typename Plain<R>::type(typename Plain<P>::type...);
};

}  // namespace stepgate::test

#define STEPGATE_TEXT_OF_SYMBOL(X) #X
#define STEPGATE_TEXT_OF(X) STEPGATE_TEXT_OF_SYMBOL(X)

// For a list of functions: RESULT is our type of what they return.
#define STEPGATE_TEST_SAME_AS_NVIDIAS(NAME, RESULT, PARAMETERS)                 \
  static_assert(std::is_same_v<stepgate::test::Plain<decltype(cu##NAME)>::type, \
                               stepgate::test::Plain<RESULT PARAMETERS>::type>, \
                "cu" #NAME " is declared otherwise in cuda.h");
// cuda.h renames what has a newer version; the name that it renames to is the exported one.
#define STEPGATE_TEST_EXPORT(NAME, SUFFIX, PARAMETERS) \
  EXPECT_STREQ(STEPGATE_TEXT_OF(cu##NAME), "cu" #NAME SUFFIX);
