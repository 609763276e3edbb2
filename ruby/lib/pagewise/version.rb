# frozen_string_literal: true

module Pagewise
  VERSION = '0.2.0'
end
