# frozen_string_literal: true

module Pagewise
  # The functions of pagewise.h that are used here, in the copy of the library that the process has.
  module Library
    FUNCTIONS = {
      pw_is_on: :bool, pw_trim: :size, pw_collection_noticed: :size, pw_version: :text
    }.freeze

    class << self
      def active?
        !function(:pw_is_on).nil? && function(:pw_is_on).call & 1 == 1 && !function(:pw_collection_noticed).nil?
      end

      def version
        function(:pw_version)&.call&.to_s
      end

      def trim
        function(:pw_trim).call
      end

      def collection_noticed
        function(:pw_collection_noticed).call
      end

      private

      def function(name)
        @functions ||= find
        @functions[name]
      end

      # Without Fiddle, or without the library, there are none.
      def find
        require 'fiddle'
        FUNCTIONS.each_with_object({}) { |(name, kind), found| bind(name, kind, found) }
      rescue LoadError
        {}
      end

      def bind(name, kind, found)
        type = { bool: Fiddle::TYPE_CHAR, size: Fiddle::TYPE_SIZE_T, text: Fiddle::TYPE_VOIDP }.fetch(kind)
        found[name] = Fiddle::Function.new(Fiddle::Handle::DEFAULT[name.to_s], [], type)
      rescue Fiddle::DLError
        nil # not preloaded, or an older library
      end
    end
  end
end
