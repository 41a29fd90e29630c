// Results of `_async` functions as futures. Include this file beside statestore.hpp.
#ifndef STATESTORE_FUTURE_HPP
#define STATESTORE_FUTURE_HPP

#include <cstddef>
#include <future>
#include <tuple>
#include <type_traits>
#include <utility>

#include "operation.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {
namespace detail {

/// The `T` of a parameter of the type `completion<T>`.
template <class Parameter>
struct completed : std::false_type {};
template <class T>
struct completed<unique_function<void(expected<T>)>> : std::true_type {
  using type = T;
};

/// Returns the index of the last parameter that is a `completion`. Earlier ones are called repeatedly.
template <class... Parameters>
constexpr std::size_t index_of_completion() {
  constexpr bool are[] = {completed<std::decay_t<Parameters>>::value...};
  std::size_t found = sizeof...(Parameters);
  for (std::size_t index = 0; index < sizeof...(Parameters); ++index) {
    if (are[index]) found = index;
  }
  return found;
}

/// The parameters of an `_async` function. Options that are not given have their defaults.
template <class... Parameters>
struct async_parameters {
  static constexpr std::size_t index = index_of_completion<Parameters...>();
  template <std::size_t Index>
  using parameter = std::tuple_element_t<Index, std::tuple<Parameters...>>;
  using value = typename completed<std::decay_t<parameter<index>>>::type;

  template <std::size_t Index, class Given>
  static decltype(auto) argument([[maybe_unused]] statestore::completion<value>& done, [[maybe_unused]] Given& given) {
    constexpr std::size_t from = Index < index ? Index : Index - 1;
    if constexpr (Index == index) {
      return std::move(done);
    } else if constexpr (from < std::tuple_size_v<Given>) {
      return std::get<from>(std::move(given));
    } else {
      static_assert(Index > index, "an argument before the completion is missing");
      return std::decay_t<parameter<Index>>();
    }
  }

  /// Calls the function with arguments in the order of its parameters.
  template <class Call, std::size_t... Indices, class Given>
  static result<operation> call(Call call, statestore::completion<value> done, Given given, std::index_sequence<Indices...>) {
    static_assert(std::tuple_size_v<Given> < sizeof...(Parameters), "there are too many arguments");
    return call(argument<Indices>(done, given)...);
  }
};

/// An `_async` function, and how it is called.
template <class Function>
struct async_function;

template <class Object, class... Parameters>
struct async_function<result<operation> (Object::*)(Parameters...) const> : async_parameters<Parameters...> {
  using base = async_parameters<Parameters...>;
  template <class... Given>
  static result<operation> begin(result<operation> (Object::*function)(Parameters...) const,
                                 statestore::completion<typename base::value> done, const Object& object, Given&&... given) {
    return base::call([&](auto&&... all) { return (object.*function)(std::forward<decltype(all)>(all)...); }, std::move(done),
                      std::forward_as_tuple(std::forward<Given>(given)...), std::index_sequence_for<Parameters...>());
  }
};

template <class... Parameters>
struct async_function<result<operation> (*)(Parameters...)> : async_parameters<Parameters...> {
  using base = async_parameters<Parameters...>;
  template <class... Given>
  static result<operation> begin(result<operation> (*function)(Parameters...), statestore::completion<typename base::value> done,
                                 Given&&... given) {
    return base::call([&](auto&&... all) { return function(std::forward<decltype(all)>(all)...); }, std::move(done),
                      std::forward_as_tuple(std::forward<Given>(given)...), std::index_sequence_for<Parameters...>());
  }
};

/// Begins an operation, or returns the error of its arguments.
template <class Function, class... Given>
expected<operation> try_begin(Function function, statestore::completion<typename async_function<Function>::value> done,
                              Given&&... given) {
#ifdef STATESTORE_NO_EXCEPTIONS
  return async_function<Function>::begin(function, std::move(done), std::forward<Given>(given)...);
#else
  try {
    return async_function<Function>::begin(function, std::move(done), std::forward<Given>(given)...);
  } catch (const error& reason) {
    return reason;
  }
#endif
}

/// Fulfils a promise.
template <class T>
void settle(std::promise<result<T>>& promise, expected<T>&& ended) {
#ifdef STATESTORE_NO_EXCEPTIONS
  promise.set_value(std::move(ended));
#else
  if (!ended) {
    promise.set_exception(std::make_exception_ptr(ended.error()));
  } else if constexpr (std::is_void_v<T>) {
    promise.set_value();
  } else {
    promise.set_value(std::move(*ended));
  }
#endif
}

}  // namespace detail

/// Calls an `_async` function without its completion, and returns a future of the result. Like in `std::invoke`, the function comes
/// first, and then its object:
///
///     auto greeting = statestore::as_future(&statestore::client::get_async, client, "greeting");
///     auto speed = statestore::as_future(&statestore::client::get_async, client, "speed", statestore::get_options());
///     if (const auto entry = greeting.get()) std::cout << entry->value().text();
///
/// Options at the end can be left out. Static functions have no object: `as_future(&client::connect_async, url)`. The future throws
/// every error, also those of the arguments; without exceptions it has an `expected`. Destroying the future does not end the operation.
///
/// Thread: any. Blocks: no. Do not wait for the future in a function that the client calls: the future is fulfilled on the same thread.
template <class Function, class... Arguments>
auto as_future(Function function, Arguments&&... arguments) -> std::future<result<typename detail::async_function<Function>::value>> {
  using value = typename detail::async_function<Function>::value;
  std::promise<result<value>> promise;
  auto future = promise.get_future();
  auto begun = detail::try_begin(
      function, [promise = std::move(promise)](expected<value> ended) mutable { detail::settle<value>(promise, std::move(ended)); },
      std::forward<Arguments>(arguments)...);
  if (!begun) {
    std::promise<result<value>> failed;
    future = failed.get_future();
    detail::settle<value>(failed, expected<value>(begun.error()));
  }
  return future;
}

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
