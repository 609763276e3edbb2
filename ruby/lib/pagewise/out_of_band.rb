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

    def ended_with(env, body)
      return Rack::BodyProxy.new(body) { ended } unless env[AFTER_REPLY].respond_to?(:<<)

      env[AFTER_REPLY] << -> { ended }
      body
    end

    def ended
      @collector.collect if @schedule.request_ended
    end
  end
end
