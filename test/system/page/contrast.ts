/**
 * The texts of a page whose contrast with their background is below 4.5:1 (WCAG 2.2, 1.4.3), from the computed styles. Runs in the page.
 * It ignores opacity and pictures behind text, which the page does not have.
 */
export function faintTexts(): string[] {
  const LEAST = 4.5;
  const canvas = document.createElement('canvas');
  canvas.width = 1;
  canvas.height = 1;
  const pen = canvas.getContext('2d', { willReadFrequently: true });
  if (pen === null) return ['no canvas'];
  const known = new Map<string, number[]>();
  // Colours have many notations; a canvas reads all of them.
  const read = (colour: string): number[] => {
    const before = known.get(colour);
    if (before !== undefined) return before;
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [red = 0, green = 0, blue = 0, alpha = 0] = pen.getImageData(0, 0, 1, 1).data;
    const parts = [red, green, blue, alpha / 255];
    known.set(colour, parts);
    return parts;
  };
  const over = ([r = 0, g = 0, b = 0, a = 1]: number[], [R = 0, G = 0, B = 0]: number[]): number[] => [
    r * a + R * (1 - a),
    g * a + G * (1 - a),
    b * a + B * (1 - a),
    1,
  ];
  const light = (channel: number): number => {
    const share = channel / 255;
    return share <= 0.040_45 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  const luminance = ([r = 0, g = 0, b = 0]: number[]): number =>
    0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  const behind = (node: Element): number[] => {
    const layers: number[][] = [];
    for (let each: Element | null = node; each !== null; each = each.parentElement)
      layers.push(read(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const faint = new Set<string>();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode() !== null) {
    const text = walker.currentNode.textContent?.trim() ?? '';
    const node = walker.currentNode.parentElement;
    if (text === '' || node === null || !node.checkVisibility() || node.closest('noscript, title') !== null)
      continue;
    const style = getComputedStyle(node);
    const colour = node instanceof SVGElement ? style.fill : style.color;
    const ground = behind(node);
    const levels = [luminance(over(read(colour), ground)), luminance(ground)].sort((a, b) => b - a);
    const contrast = ((levels[0] ?? 0) + 0.05) / ((levels[1] ?? 0) + 0.05);
    if (contrast < LEAST)
      faint.add(
        `${contrast.toFixed(2)} ${node.localName}.${node.getAttribute('class') ?? ''}: ${text.slice(0, 40)}`,
      );
  }
  return [...faint];
}
