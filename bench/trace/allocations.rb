# Allocation-heavy: strings, arrays and hashes beyond what Ruby embeds in its own cells, most of them dying young.
kept = {}
Integer(ARGV.fetch(0, "1000000")).times do |i|
  string = "x" * (30 + i % 200)
  array = Array.new(5 + i % 20) { |k| k }
  hash = { string => array, array => i }
  kept[i % 2000] = hash if i % 10 == 0
end
puts kept.size
