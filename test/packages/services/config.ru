# A request allocates ten thousand strings, and says in which process.
run ->(_) { [200, {"content-type" => "text/plain"}, ["#{Array.new(10_000) { |i| i.to_s * 20 }.sum(&:size)} #{Process.pid}\n"]] }
