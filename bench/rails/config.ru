# frozen_string_literal: true

require_relative 'app'
if ENV['RAILS_BENCH_OUT_OF_BAND']
  $LOAD_PATH.unshift(File.expand_path('../../ruby/lib', __dir__))
  require 'pagewise/out_of_band'
  use Pagewise::OutOfBand, every: Float(ENV['RAILS_BENCH_OUT_OF_BAND'])
end
run AddressBook
