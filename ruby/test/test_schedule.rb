# frozen_string_literal: true

require_relative 'helper'

class TestSchedule < Minitest::Test
  def setup
    @now = 100.0
    @schedule = Pagewise::Schedule.new(every: 10, at_latest: 60, clock: -> { @now })
  end

  def request
    @schedule.request_began
    yield if block_given?
    @schedule.request_ended
  end

  def test_collects_once_in_so_many_seconds
    refute request
    @now += 9.9
    refute request
    @now += 0.1
    assert request
    refute request
    @now += 10
    assert request
  end

  def test_waits_while_others_are_answered
    @now += 30
    @schedule.request_began
    refute request
    assert @schedule.request_ended
  end

  def test_but_not_for_ever
    @schedule.request_began
    @now += 59
    refute request
    @now += 1
    assert request
    refute request
  end

  def test_threads_are_told_once
    @now += 10
    due = 20.times.map { Thread.new { Array.new(50) { request } } }.flat_map(&:value)
    assert_equal 1, due.count(true)
  end

  def test_refuses_what_makes_no_sense
    [{ every: 0, at_latest: 1 }, { every: -1, at_latest: 1 }, { every: 'x', at_latest: 1 }, { every: 9, at_latest: 8 },
     { every: 1, at_latest: nil }, { every: nil }, { every: [1] }].each do |seconds|
      assert_raises(ArgumentError) { Pagewise::Schedule.new(**seconds) }
    end
  end
end
