# frozen_string_literal: true

require_relative 'lib/pagewise/version'

Gem::Specification.new do |spec|
  spec.name = 'pagewise'
  spec.version = Pagewise::VERSION
  spec.summary = 'Give memory back to the machine between requests'
  spec.description = 'Collects garbage between requests and returns what became free, in Ruby programs that run ' \
                     'with libpagewise-general.so preloaded. Does nothing in others.'
  spec.authors = ['The Pagewise authors']
  spec.license = 'MIT'
  spec.required_ruby_version = '>= 2.7'
  spec.files = Dir.chdir(__dir__) { Dir['lib/**/*.rb', 'README.md'] }
  spec.metadata['rubygems_mfa_required'] = 'true'
  spec.add_dependency 'fiddle'
  spec.add_dependency 'rack', '>= 2.0'
end
