# frozen_string_literal: true

module Pagewise
  VERSION = '0.1.0'
end
