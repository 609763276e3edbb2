# frozen_string_literal: true

require_relative 'app'
if ENV['RAILS_BENCH_OUT_OF_BAND'] || ENV['RAILS_BENCH_COLLECT']
  $LOAD_PATH.unshift(File.expand_path('../../ruby/lib', __dir__))
  require 'pagewise/out_of_band'
end
use Pagewise::OutOfBand, every: Float(ENV['RAILS_BENCH_OUT_OF_BAND']) if ENV['RAILS_BENCH_OUT_OF_BAND']
if ENV['RAILS_BENCH_COLLECT'] # the control: the same collections, and nothing is asked of the allocator
  collector = Class.new { def collect = GC.start(full_mark: true, immediate_sweep: true) }.new
  use Pagewise::OutOfBand, every: Float(ENV['RAILS_BENCH_COLLECT']), collector: collector
end
run AddressBook
