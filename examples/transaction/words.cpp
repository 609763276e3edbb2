// SPDX-License-Identifier: MIT
//
// A request handler on a transaction heap: counts the words of each line of standard input.
//     g++ -std=c++17 -O2 words.cpp -lpagewise -o words
#include <pagewise_resource.hpp>

#include <iostream>
#include <map>
#include <string>

// One request: everything in it comes from `memory` and is gone when it ends.
static std::size_t serve(pagewise::transaction_resource &memory, const std::string &line) {
    pagewise::transaction request(memory);
    std::pmr::map<std::pmr::string, int> counts(&memory);
    std::pmr::string word(&memory);
    for (char c : line + ' ') {
        if (c != ' ') {
            word += c;
        } else if (!word.empty()) {
            counts[word]++;
            word.clear();
        }
    }
    for (const auto &[text, count] : counts) {
        std::cout << text << ' ' << count << '\n';
    }
    return counts.size();
}

int main() {
    pagewise::transaction_resource memory; // one for each thread
    std::string line;
    while (std::getline(std::cin, line)) {
        serve(memory, line);
    }
    pw_heap_statistics now;
    pw_heap_statistics_read(memory.native_handle(), &now);
    std::cerr << now.transactions << " requests, at most " << now.peak_segment_bytes
              << " bytes in one\n";
}
