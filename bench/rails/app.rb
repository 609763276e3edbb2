# frozen_string_literal: true

# An address book on Rails 6.1 and sqlite, in one file: lists and searches, forms, JSON, reports of
# everything and imports, whose needs for memory differ by a factor of a thousand.
ENV['RAILS_ENV'] ||= 'production'
require 'rails'
require 'active_record/railtie'
require 'action_controller/railtie'
require 'action_view/railtie'
require 'csv'
require 'json'

class AddressBook < Rails::Application
  config.root = __dir__
  config.load_defaults 6.1
  config.eager_load = true
  config.cache_classes = true
  config.consider_all_requests_local = false
  config.secret_key_base = 'x' * 64
  config.log_level = :fatal
  config.logger = Logger.new(File::NULL)
  config.hosts.clear
  config.action_controller.allow_forgery_protection = false
  config.active_record.migration_error = false
end

AddressBook.initialize!
ActiveRecord::Base.logger = nil

class Person < ActiveRecord::Base
  has_many :notes, dependent: :delete_all
  validates :name, presence: true, length: { maximum: 80 }
  validates :phone, format: { with: /\A[\d +-]*\z/ }
  scope :search, ->(text) { where('name like ? or city like ?', "%#{text}%", "%#{text}%") }
end

class Note < ActiveRecord::Base
  belongs_to :person
end

def create_database(people)
  ActiveRecord::Schema.verbose = false
  ActiveRecord::Base.connection.execute('pragma journal_mode = wal') # readers do not wait for writers
  ActiveRecord::Schema.define do
    create_table(:people) { |t| t.string :name, index: true; t.string :city; t.string :phone }
    create_table(:notes) { |t| t.references :person; t.text :body }
  end
  (1..people).each_slice(500) do |numbers|
    Person.insert_all!(numbers.map { |n| person_row(n) })
    Note.insert_all!(numbers.flat_map { |n| note_rows(n) })
  end
end

def person_row(number)
  { id: number, name: "Person #{number * 7919 % 100_003}", city: "City #{number % 97}", phone: "+49 #{number * 31}" }
end

def note_rows(number)
  Array.new(number % 4) { |i| { person_id: number, body: "note #{i} of #{number} " * (1 + number * 13 % 40) } }
end

class PeopleController < ActionController::Base
  prepend_view_path File.expand_path('views', __dir__)
  around_action :alone, only: %i[create update destroy]

  # While it waits for another writer, sqlite keeps Ruby's lock, without which that one cannot end.
  WRITING = Mutex.new

  def index
    people = params[:q] ? Person.search(params[:q]) : Person.all
    @count = people.count
    @people = people.order(:name, :id).includes(:notes).limit(50).offset(params[:page].to_i * 50)
  end

  def show
    @person = Person.includes(:notes).find(params[:id])
    respond_to { |format| format.html; format.json { render json: @person.as_json(include: :notes) } }
  end

  def create
    person = Person.new(params.permit(:id, :name, :city, :phone))
    person.save ? redirect_to("/people/#{person.id}") : render(json: person.errors, status: :unprocessable_entity)
  end

  def update
    person = Person.find(params[:id])
    person.update!(city: params[:city])
    person.notes.create!(body: params[:note]) if params[:note]
    head :no_content
  end

  def destroy
    Person.find(params[:id]).destroy!
    head :no_content
  end

  def cities
    @cities = Person.includes(:notes).order(:id).limit(2000).group_by(&:city).sort
  end

  def report
    rows = Person.includes(:notes).order(:id).map { |p| [p.id, p.name, p.city, p.phone, p.notes.map(&:body).join('|')] }
    send_data CSV.generate { |csv| rows.each { |row| csv << row } }, type: 'text/csv'
  end

  def export
    render json: { people: Person.includes(:notes).order(:id).limit(params[:limit].to_i).as_json(include: :notes) }
  end

  def import
    rows = JSON.parse(request.raw_post)
    words = rows.flat_map { |row| row['body'].split }.tally
    render json: { rows: rows.size, words: words.sort_by { |word, count| [-count, word] }.first(20) }
  end

  private

  def alone(&action)
    WRITING.synchronize(&action)
  end
end

AddressBook.routes.draw do
  get '/people/cities', to: 'people#cities'
  get '/people/report', to: 'people#report'
  get '/people/export', to: 'people#export'
  post '/people/import', to: 'people#import'
  resources :people, only: %i[index show create update destroy]
end
