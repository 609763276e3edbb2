# frozen_string_literal: true

require 'rack/body_proxy'
require 'pagewise'

module Pagewise
  # Rack middleware: after an answer has been sent, and while no other request is being answered,
  # collects garbage and gives back what became free.
  #
  #   use Pagewise::OutOfBand, every: 30 # config.ru
  #   config.middleware.insert_before 0, Pagewise::OutOfBand # Rails
  class OutOfBand
    AFTER_REPLY = 'rack.after_reply' # Puma's and Unicorn's: the connection is served by then
    HIJACKED = 'rack.hijack_io' # the program has taken the connection: the server looks at no answer

    # Puma's list is left out where the closing of the body fails.
    class Body < Rack::BodyProxy
      def initialize(body, &failed)
        super(body) { nil }
        @failed = failed
      end

      def close
        closed = false
        super
        closed = true
      ensure
        @failed.call unless closed
      end
    end
    private_constant :Body

    # `every`: seconds between two collections at least. `at_latest`: after so many, also while other
    # requests are being answered; they wait for the collection then (ten times `every`).
    def initialize(app, every: 30, collector: Pagewise, **at_latest)
      @app = app
      @collector = collector
      @schedule = Schedule.new(every: every, **at_latest)
    end

    def call(env)
      @schedule.request_began
      answered = false
      status, headers, body = @app.call(env)
      answer = [status, headers, ended_with(env, body)]
      answered = true
      answer
    ensure
      ended unless answered # the program raised, or threw
    end

    private

    # What has no `close` stays what it is: servers give an Array a length.
    def ended_with(env, body)
      return closed_with(env, body) unless env[AFTER_REPLY].respond_to?(:unshift)

      once = once_ended
      env[AFTER_REPLY].unshift(once) # one of the program's that fails ends the list
      body.respond_to?(:close) ? Body.new(body, &once) : body
    end

    def closed_with(env, body)
      return Rack::BodyProxy.new(body) { ended } unless env[HIJACKED]

      ended
      body
    end

    def once_ended
      left = [true]
      -> { ended if left.pop }
    end

    def ended
      @collector.collect if @schedule.request_ended
    end
  end
end
