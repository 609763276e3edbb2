# A web application without the web: requests.rb REQUESTS SEED. Parses parameters, looks records up in a table, fills
# ERB templates, keeps sessions and a cache of pages that is emptied now and then.
require "erb"
require "json"

requests, seed = ARGV.map(&:to_i)
random = Random.new(seed)

Article = Struct.new(:id, :title, :body, :tags, :comments)
WORDS = Array.new(400) { |i| "word#{i}" * (1 + i % 3) }
text = ->(words) { Array.new(words) { WORDS[random.rand(WORDS.size)] }.join(" ") }
articles = Array.new(600) do |id|
  Article.new(id, text.(6), text.(20 + random.rand(300)), Array.new(random.rand(5)) { text.(1) }, [])
end

LIST = ERB.new(<<~PAGE)
  <ul><% articles.each do |article| %><li><a href="/<%= article.id %>"><%= ERB::Util.html_escape(article.title) %></a>
  <%= article.tags.join(", ") %></li><% end %></ul>
PAGE
SHOW = ERB.new(<<~PAGE)
  <h1><%= article.title %></h1><p><%= article.body.gsub(/word(\d)/) { "<b>" + $1 + "</b>" } %></p>
  <% article.comments.each do |comment| %><p><%= comment["name"] %>: <%= comment["text"] %></p><% end %>
PAGE

sessions = {}
cache = {}
requests.times do |number|
  session = sessions[random.rand(2000)] ||= { "visits" => 0, "seen" => [] }
  session["visits"] += 1
  case random.rand(10)
  when 0..3
    from = random.rand(500)
    page = cache[from] ||= LIST.result_with_hash(articles: articles[from, 40])
  when 4..7
    article = articles[random.rand(articles.size)]
    session["seen"] << article.title.dup
    page = SHOW.result_with_hash(article: article)
  when 8
    comment = JSON.parse(JSON.generate("name" => text.(2), "text" => text.(5 + random.rand(60))))
    articles[random.rand(articles.size)].comments << comment
  else
    page = JSON.generate(articles.sample(30, random: random).map(&:to_h))
  end
  cache.clear if number % 1500 == 1499
  sessions.shift while sessions.size > 1000
  articles.each { |article| article.comments.clear } if number % 4000 == 3999
end
puts "#{requests} requests, #{sessions.size} sessions"
