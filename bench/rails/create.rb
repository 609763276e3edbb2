# frozen_string_literal: true

require_relative 'app'
create_database(Integer(ARGV.fetch(0)))
ActiveRecord::Base.connection.execute('pragma wal_checkpoint(truncate)') # all in the one file
ActiveRecord::Base.connection_pool.disconnect!
