# frozen_string_literal: true

# The requests, for a process that answers them itself (figure 11, under callgrind): requests.rb COUNT
require_relative 'app'
require 'rack/mock'
require 'digest'

requests = $stdin.each_line.first(Integer(ARGV.fetch(0))).map { |line| JSON.parse(line) }
server = Rack::MockRequest.new(AddressBook)
sum = Digest::SHA256.new
requests.each do |method, path, body|
  answer = server.request(method, path, input: body, 'CONTENT_TYPE' => body&.start_with?('[') ? 'application/json' : 'application/x-www-form-urlencoded')
  sum << answer.status.to_s
end
puts sum.hexdigest
