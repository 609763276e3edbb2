//! Functions of a language's own library, by their names: whoever looks for a place in a program means their callers.

/// Namespaces of C++'s and Rust's libraries, and the functions of Rust's allocator.
const BEGINNINGS: [&str; 11] = [
    "std::",
    "__gnu_cxx::",
    "operator new",
    "__rust_alloc",
    "__rust_realloc",
    "__rdl_alloc",
    "__rdl_realloc",
    "alloc::alloc::",
    "alloc::raw_vec::",
    "alloc::vec::",
    "alloc::boxed::",
];

/// Is this demangled name of C++'s or Rust's own library?
pub fn is_of_library(symbol: &str) -> bool {
    let name = bare(symbol);
    // Templates' names begin with what they return; `operator new` is of two words.
    let name = match name.find("operator ") {
        Some(at) => &name[name[..at].rfind(' ').map_or(0, |space| space + 1)..],
        None => name.rsplit(' ').next().unwrap_or_default(),
    };
    let name = name.trim_start_matches('&').trim_start_matches('*');
    BEGINNINGS.iter().any(|start| name.starts_with(start))
}

/// Without arguments of templates and of the function: what is left has names and spaces alone.
fn bare(symbol: &str) -> String {
    let symbol = symbol.replace("(anonymous namespace)", "_");
    let (mut name, mut depth) = (String::new(), 0_usize);
    for letter in symbol.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            _ if depth == 0 => name.push(letter),
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_libraries_are_known_whatever_they_return() {
        for symbol in [
            "operator new(unsigned long)",
            "operator new[](unsigned long, std::nothrow_t const&)",
            "std::__new_allocator<Node>::allocate(unsigned long, void const*)",
            "__gnu_cxx::new_allocator<Node>::allocate(unsigned long)",
            "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)",
            "std::_Rb_tree_node<std::pair<int const, Node> >* std::_Rb_tree<int>::_M_create_node<>()",
            "int& std::vector<int>::emplace_back<int>(int&&)",
            "std::function<void ()>::operator()() const",
            "alloc::raw_vec::RawVec<T,A>::grow_one",
            "__rust_alloc",
        ] {
            assert!(is_of_library(symbol), "{symbol}");
        }
    }

    #[test]
    fn what_takes_or_returns_a_librarys_type_is_the_programs() {
        for symbol in [
            "main",
            "",
            "make(std::string const&)",
            "std::string my::name(int)",
            "std::unique_ptr<Node> make<Node>(std::vector<int>)",
            "(anonymous namespace)::keep(std::string)",
            "serve()::{lambda(std::string)#1}::operator()(std::string) const",
            "Pool::operator new(unsigned long)",
            "stdlike::f()",
            "my::std::f()",
        ] {
            assert!(!is_of_library(symbol), "{symbol}");
        }
    }
}
