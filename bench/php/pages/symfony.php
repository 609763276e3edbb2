<?php
// A page made of Symfony's components: routes, services, events, a configuration in YAML, expressions, a template of Twig.
require_once 'Symfony/Component/Routing/autoload.php';
require_once 'Symfony/Component/DependencyInjection/autoload.php';
require_once 'Symfony/Component/EventDispatcher/autoload.php';
require_once 'Symfony/Component/ExpressionLanguage/autoload.php';
require_once 'Symfony/Component/HttpFoundation/autoload.php';
require_once 'Symfony/Component/Yaml/autoload.php';
require_once 'Twig/autoload.php';

use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\DependencyInjection\Reference;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\ExpressionLanguage\ExpressionLanguage;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\Routing\Matcher\UrlMatcher;
use Symfony\Component\Routing\RequestContext;
use Symfony\Component\Routing\Route;
use Symfony\Component\Routing\RouteCollection;
use Symfony\Component\Yaml\Yaml;

class Shop {
    function __construct(private ExpressionLanguage $language, private array $rules) {}
    function price(array $product): float {
        foreach ($this->rules as $rule) {
            if ($this->language->evaluate($rule['when'], ['product' => $product])) {
                return $product['price'] * $rule['factor'];
            }
        }
        return $product['price'];
    }
}

$settings = Yaml::parse(implode("\n", ['shop:', '  rules:', '    - { when: "product[\'stock\'] > 8", factor: 0.8 }',
    '    - { when: "product[\'price\'] > 50 and product[\'stock\'] < 3", factor: 1.1 }', '  menu:',
    ...array_map(fn ($i) => "    - { name: part $i, link: /part/$i }", range(1, 30))]));
$routes = new RouteCollection;
foreach (range(1, 60) as $i) $routes->add("part$i", new Route("/part/$i/{page}", ['page' => 1], ['page' => '\d+']));
$match = (new UrlMatcher($routes, new RequestContext('/')))->match('/part/42/3');
$services = new ContainerBuilder;
$services->register('language', ExpressionLanguage::class);
$services->register('shop', Shop::class)->setArguments([new Reference('language'), $settings['shop']['rules']])->setPublic(true);
$services->register('events', EventDispatcher::class)->setPublic(true);
$services->compile();
$products = [];
for ($i = 0; $i < 200; $i++) $products[] = ['name' => "Product $i", 'price' => $i * 1.17, 'stock' => $i % 11];
$services->get('events')->addListener('list', function ($event) use ($services) {
    $event->products = array_map(fn ($product) => $product + ['now' => $services->get('shop')->price($product)], $event->products);
});
$event = $services->get('events')->dispatch(new class($products) { function __construct(public array $products) {} }, 'list');
$twig = new Twig\Environment(new Twig\Loader\ArrayLoader(['page' => '<html><body><ul>{% for item in menu %}<li><a href="{{ item.link }}">{{ item.name|title }}</a></li>{% endfor %}</ul><table>{% for product in products %}<tr><td>{{ product.name }}</td><td>{{ product.now|number_format(2) }}</td><td>{{ product.stock > 5 ? "many" : "few" }}</td></tr>{% endfor %}</table><p>{{ route }}</p></body></html>']));
$text = $twig->render('page', ['menu' => $settings['shop']['menu'], 'products' => $event->products, 'route' => json_encode($match)]);
$response = new Response($text, 200, ['Content-Type' => 'text/html']);
$response->prepare(Request::createFromGlobals());
$response->send();
