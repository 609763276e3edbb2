# frozen_string_literal: true

$LOAD_PATH.unshift(File.expand_path('../lib', __dir__))
require 'minitest/autorun'
require 'open3'
require 'pagewise'
require 'rbconfig'
require 'tmpdir'

# LD_PRELOAD is split at spaces, and has no quotes.
def spaceless(path)
  return path unless path.match?(/[\s:]/)

  folder = Dir.mktmpdir('pagewise-')
  Minitest.after_run { FileUtils.rm_r(folder) }
  File.symlink(File.dirname(path), "#{folder}/link")
  "#{folder}/link/#{File.basename(path)}"
end

LIBRARY = spaceless(ENV.fetch('PAGEWISE_GENERAL_LIBRARY',
                              File.expand_path('../../build/lib/libpagewise-general.so', __dir__)))

# Runs Ruby code in a process of its own; returns [standard output, standard error].
def ruby(code, preload: nil, environment: {})
  environment = { 'LD_PRELOAD' => preload, 'PAGEWISE_OPTIONS' => nil }.merge(environment)
  output, error, status = Open3.capture3(environment, RbConfig.ruby, '-I', File.expand_path('../lib', __dir__),
                                         '-e', code)
  raise "#{status}: #{error}" unless status.success?

  [output, error]
end
