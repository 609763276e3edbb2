<?php
// A shop without a framework, much as the e-commerce part of SPECweb: a session's cart, a search in a
// product list, one page of results as HTML.
$products = [];
for ($i = 0; $i < 300; $i++) {
    $products[] = ['id' => $i, 'name' => 'Item ' . md5((string) $i), 'price' => ($i * 7919 % 10000) / 100, 'stock' => $i % 13];
}
$cart = json_decode('[{"id":3,"count":2},{"id":77,"count":1},{"id":210,"count":4}]', true);
$found = array_filter($products, fn ($product) => strpos($product['name'], 'a') !== false && $product['stock'] > 2);
usort($found, fn ($one, $other) => $one['price'] <=> $other['price']);
$rows = '';
foreach (array_slice($found, 0, 40) as $product) {
    $rows .= sprintf('<tr><td>%d</td><td>%s</td><td>%.2f</td></tr>', $product['id'], htmlspecialchars($product['name']), $product['price']);
}
$sum = 0;
foreach ($cart as $line) {
    $sum += $line['count'] * $products[$line['id']]['price'];
}
echo "<html><body><p>", count($found), " found, cart ", number_format($sum, 2), "</p><table>$rows</table></body></html>\n";
