# frozen_string_literal: true

module Pagewise
  # When to collect between requests: at most every so many seconds, and while no request is being
  # answered. A server that is never idle is made to wait once in a while, because garbage that is
  # never given back is what it was asked to prevent.
  class Schedule
    def initialize(every:, at_latest: (every * 10 if positive?(every)),
                   clock: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) })
      raise ArgumentError, "every: #{every.inspect} is no number of seconds" unless positive?(every)
      raise ArgumentError, "at_latest: must not be less than every: (#{at_latest.inspect})" unless
        positive?(at_latest) && at_latest >= every

      @every = every
      @at_latest = at_latest
      @clock = clock
      @lock = Mutex.new
      @in_flight = 0
      @last = clock.call
    end

    def request_began
      @lock.synchronize { @in_flight += 1 }
    end

    # True: the caller is to collect now, and is the only one.
    def request_ended
      @lock.synchronize do
        @in_flight -= 1 if @in_flight.positive?
        waited = @clock.call - @last
        due = waited >= (@in_flight.zero? ? @every : @at_latest)
        @last = @clock.call if due
        due
      end
    end

    private

    def positive?(seconds)
      seconds.is_a?(Numeric) && seconds.positive?
    end
  end
end
