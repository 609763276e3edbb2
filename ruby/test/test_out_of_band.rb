# frozen_string_literal: true

require_relative 'helper'
require 'pagewise/out_of_band'

class TestOutOfBand < Minitest::Test
  class Collector
    attr_reader :count

    def collect
      @count = count.to_i + 1
    end
  end

  def setup
    @collector = Collector.new
  end

  def middleware(every: 1e-9, at_latest: 1000, &app)
    app ||= ->(_) { [200, { 'X' => 'y' }, %w[one two]] }
    Pagewise::OutOfBand.new(app, every: every, at_latest: at_latest, collector: @collector)
  end

  def test_says_what_is_no_number_of_seconds
    error = assert_raises(ArgumentError) { Pagewise::OutOfBand.new(->(_) {}, every: nil) }
    assert_equal 'every: nil is no number of seconds', error.message
    assert_raises(ArgumentError) { Pagewise::OutOfBand.new(->(_) {}, at_last: 1) }
    Pagewise::OutOfBand.new(->(_) {}, every: 5)
    Pagewise::OutOfBand.new(->(_) {}, every: 5, at_latest: 6)
  end

  def test_answers_are_unchanged
    status, headers, body = middleware.call({})
    assert_equal [200, { 'X' => 'y' }, %w[one two]], [status, headers, body.to_enum.to_a]
  end

  def test_collects_when_the_body_is_closed_and_not_before
    _, _, body = middleware.call({})
    body.to_enum.to_a
    assert_nil @collector.count
    body.close
    assert_equal 1, @collector.count
  end

  def test_collects_after_the_reply_where_the_server_can
    after = []
    sent = %w[one two]
    _, _, body = middleware { [200, {}, sent] }.call('rack.after_reply' => after)
    assert_same sent, body
    assert_nil @collector.count
    after.each(&:call)
    assert_equal 1, @collector.count
  end

  # A body that must be closed, as a file.
  class Closeable
    attr_reader :closed

    def initialize(error = nil)
      @error = error
    end

    def each
      yield 'text'
    end

    def to_path
      '/a/file'
    end

    def close
      @closed = true
      raise @error if @error
    end
  end

  # As Puma ends a request.
  def end_as_puma(body, after)
    body.close if body.respond_to?(:close)
    begin
      after.each(&:call)
    rescue StandardError
      nil
    end
  end

  def test_what_the_program_does_after_the_reply_may_fail
    app = middleware do |env|
      env['rack.after_reply'] << -> { raise 'no' }
      [200, {}, []]
    end
    2.times do |before|
      after = []
      end_as_puma(app.call('rack.after_reply' => after).last, after)
      assert_equal before + 1, @collector.count
    end
  end

  def test_a_body_whose_closing_fails_ends_the_request_once
    body = Closeable.new(IOError.new('no'))
    app = middleware { |env| [200, {}, env['good'] ? [] : body] }
    after = []
    answer = app.call('rack.after_reply' => after).last
    assert_raises(IOError) { end_as_puma(answer, after) }
    assert_equal 1, @collector.count
    after.each(&:call)
    assert_equal 1, @collector.count
    after = []
    end_as_puma(app.call('rack.after_reply' => after, 'good' => true).last, after)
    assert_equal 2, @collector.count
  end

  def test_a_body_that_is_closed_is_what_it_was_and_ends_nothing
    body = Closeable.new
    after = []
    answer = middleware { [200, {}, body] }.call('rack.after_reply' => after).last
    assert_equal ['/a/file', %w[text]], [answer.to_path, answer.to_enum.to_a]
    refute_respond_to answer, :to_ary
    answer.close
    assert body.closed
    assert_nil @collector.count
    after.each(&:call)
    assert_equal 1, @collector.count
  end

  def test_a_connection_that_the_program_has_taken_is_no_request
    app = middleware do |env|
      env['rack.hijack_io'] = $stdin
      [200, {}, []]
    end
    app.call({})
    assert_equal 1, @collector.count
    after = []
    app.call('rack.after_reply' => after)
    after.each(&:call)
    assert_equal 2, @collector.count
  end

  def test_an_exception_passes_and_ends_the_request
    broken = middleware { raise 'no' }
    assert_raises(RuntimeError) { broken.call({}) }
    assert_equal 1, @collector.count
    catch(:done) { middleware { throw :done }.call({}) }
    assert_equal 2, @collector.count
  end

  def test_does_not_collect_before_it_is_due
    often = middleware(every: 1000)
    100.times { often.call({}).last.close }
    assert_nil @collector.count
  end

  def test_waits_for_other_requests
    outer = nil
    app = middleware { |env| [200, {}, env['inner'] ? [] : outer.call('inner' => true).last.tap(&:close)] }
    outer = app
    _, _, body = app.call({})
    assert_nil @collector.count
    body.close
    assert_equal 1, @collector.count
  end
end
