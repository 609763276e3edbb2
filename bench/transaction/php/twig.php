<?php
// A shop's listing page: templates with inheritance, loops, filters and escaping.
require 'Twig/autoload.php';
$loader = new Twig\Loader\ArrayLoader([
    'base' => '<html><head><title>{% block title %}{% endblock %}</title></head><body><ul>{% for item in menu %}<li><a href="{{ item.link }}">{{ item.name|title }}</a></li>{% endfor %}</ul>{% block body %}{% endblock %}</body></html>',
    'list' => '{% extends "base" %}{% block title %}{{ title|upper }}{% endblock %}{% block body %}<table>{% for product in products %}<tr class="{{ cycle(["odd", "even"], loop.index) }}"><td>{{ loop.index }}</td><td>{{ product.name }}</td><td>{{ product.price|number_format(2) }}</td><td>{{ product.tags|join(", ") }}</td><td>{{ product.text|slice(0, 40)|nl2br }}</td></tr>{% else %}<tr><td>none</td></tr>{% endfor %}</table>{% endblock %}',
]);
$twig = new Twig\Environment($loader);
$products = [];
for ($i = 0; $i < 2000; $i++) {
    $products[] = ['name' => "Product <$i>", 'price' => $i * 1.17, 'tags' => ["tag$i", 'common', 'new'], 'text' => str_repeat("Line $i\n", 8)];
}
echo $twig->render('list', ['title' => 'all products', 'menu' => [['link' => '/', 'name' => 'home'], ['link' => '/cart', 'name' => 'cart']], 'products' => $products]);
