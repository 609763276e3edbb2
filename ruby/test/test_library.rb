# frozen_string_literal: true

require_relative 'helper'

class TestLibrary < Minitest::Test
  GROW = <<~RUBY
    require 'pagewise'
    def resident = File.read('/proc/self/statm').split[1].to_i * 4096
    kept = []
    200_000.times { |i| s = 'x' * (100 + i % 900); kept << s if i % 400 == 0 }
    hold = Array.new(100_000) { |i| 'y' * (100 + i % 900) }
    before = resident
    hold = nil
  RUBY

  def test_without_the_library_nothing_happens_and_is_said_once
    output, error = ruby("#{GROW} p [Pagewise.active?, Pagewise.collect, Pagewise.trim, Pagewise.collect, GC.count < 1000]")
    assert_equal "[false, 0, 0, 0, true]\n", output
    assert_equal 1, error.lines.size
    assert_match(/^pagewise: libpagewise-general\.so is not preloaded: .*pagewise run --policy general/, error)
  end

  def test_the_message_goes_where_it_is_told_to
    output, error = ruby("require 'pagewise'; Pagewise.output = $stdout; Pagewise.trim")
    assert_match(/not preloaded/, output)
    assert_empty error
    assert_equal ['', ''], ruby("require 'pagewise'; Pagewise.output = nil; Pagewise.trim")
  end

  def test_another_library_of_the_same_symbols_is_not_needed
    assert_equal "nil\n", ruby("require 'pagewise'; p Pagewise.library_version").first
  end

  def test_memory_goes_back
    skip "#{LIBRARY} is not built" unless File.exist?(LIBRARY)
    output, error = ruby("#{GROW} given = Pagewise.collect; p [Pagewise.active?, given, before - resident]; " \
                         "kept.each { |s| raise 'damaged' unless s.delete('x').empty? }", preload: LIBRARY)
    active, given, fell = output.delete('[]').split(', ')
    assert_equal ['true', ''], [active, error]
    assert_operator given.to_i, :>, 20_000_000
    assert_operator fell.to_i, :>, 20_000_000
  end

  def test_switched_off_is_not_active
    skip "#{LIBRARY} is not built" unless File.exist?(LIBRARY)
    plain = { 'PAGEWISE_OPTIONS' => 'policy=plain' }
    output, = ruby("require 'pagewise'; Pagewise.output = nil; p Pagewise.active?, Pagewise.collect",
                   preload: LIBRARY, environment: plain)
    assert_equal "false\n0\n", output
  end

  def test_threads_and_forks_go_on_beside_it
    skip "#{LIBRARY} is not built" unless File.exist?(LIBRARY)
    output, = ruby(<<~RUBY, preload: LIBRARY)
      require 'pagewise'
      work = ->(n) { Array.new(20_000) { |i| (n * i).to_s * (i % 20) }.join.sum }
      expected = Array.new(6) { |n| work.call(n) }
      got = Array.new(6) { |n| Thread.new { 5.times.map { work.call(n) }.last } }
      20.times { Pagewise.collect; Thread.pass }
      pid = fork { Pagewise.collect; exit!(work.call(3) == expected[3] ? 0 : 1) }
      p got.map(&:value) == expected, Process.wait2(pid).last.exitstatus
    RUBY
    assert_equal "true\n0\n", output
  end
end
