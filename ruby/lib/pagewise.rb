# frozen_string_literal: true

require 'pagewise/version'
require 'pagewise/library'
require 'pagewise/schedule'

# What a Ruby program can ask of Pagewise, where libpagewise-general.so is preloaded. Elsewhere
# nothing is done, and that is said once.
module Pagewise
  autoload :OutOfBand, 'pagewise/out_of_band'

  class << self
    # Is all memory of this process from Pagewise?
    def active?
      Library.active?
    end

    # Version of the library that is preloaded; nil where there is none.
    def library_version
      Library.version
    end

    # Give back what is free. Returns the bytes that went back to the machine.
    def trim
      active? ? Library.trim : say_once
    end

    # Collect all garbage, then give back pages that hold only zeros (where no other thread of the
    # process could be writing to them) and everything that is free. Returns the bytes that went
    # back. Stops all threads for as long as a full collection takes: not to be called within a
    # request.
    def collect
      return say_once unless active?

      GC.start(full_mark: true, immediate_sweep: true)
      Library.collection_noticed + Library.trim
    end

    # Where the one message goes: something with `puts`. nil: nowhere.
    attr_accessor :output

    private

    def say_once
      return 0 if @said

      @said = true
      output&.puts('pagewise: libpagewise-general.so is not preloaded: nothing is given back between requests ' \
                   '(start the server with: pagewise run --policy general -- COMMAND)')
      0
    end
  end

  self.output = $stderr
end
