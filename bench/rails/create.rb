# frozen_string_literal: true

require_relative 'app'
create_database(Integer(ARGV.fetch(0)))
