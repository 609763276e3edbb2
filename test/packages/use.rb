# frozen_string_literal: true

# A Rack application that uses the installed gem, under libpagewise-general.so: after a request its garbage is collected
# and given back.
gem 'pagewise'
require 'pagewise'
require 'rack'

abort 'use.rb: the library is not preloaded' unless Pagewise.active?
puts "gem #{Pagewise::VERSION}, library #{Pagewise.library_version}"

def resident
  File.read('/proc/self/smaps_rollup')[/^Pss: +(\d+)/, 1].to_i * 1024
end

app = Rack::Builder.new do
  use Pagewise::OutOfBand, every: 0.001
  run lambda { |_|
    # Longer than what Ruby 3.3 keeps beside its objects (640 bytes), in pages that it gives back one day.
    rows = Array.new(100_000) { |number| "row #{number} #{'x' * 2000}" }
    [200, { 'content-type' => 'text/plain' }, [rows.size.to_s]]
  }
end.to_app
GC.disable # what the request leaves is there when it ends
status, _, body = app.call(Rack::MockRequest.env_for('/'))
body.each { |part| abort "use.rb: the answer is #{status} #{part}" unless part == '100000' }
held = resident
body.close
given_back = held - resident
abort "use.rb: of #{held} bytes #{given_back} went back" unless given_back > 50_000_000
puts "#{given_back} bytes went back after the request"
