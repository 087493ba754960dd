import type { Recording } from './recording.ts';
import { lastScreen, play, type Run, type Shown } from './screen.ts';

const FONT_SIZE = 14;
const CELL_WIDTH = 8.4;
const LINE_HEIGHT = 20;
const PADDING = 16;

/**
 * A line that stays is hidden until its time has come: where nothing moves, as somebody does not want that or a program cannot do it,
 * all such lines are there at once. One that goes is the other way round.
 */
const STYLE = `
text { font: ${FONT_SIZE}px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d1d7e0 }
.bold { font-weight: bold; fill: #ffffff }
.stays { animation: off 0s }
.goes { visibility: hidden; animation: on 0s }
@keyframes off { from, to { visibility: hidden } }
@keyframes on { from, to { visibility: visible } }
@media (prefers-reduced-motion: reduce) { .stays, .goes { animation: none !important } }`;

/**
 * A recording as a picture that plays once and then shows the end. It brings its own ground, so that it can be read on a light and on
 * a dark page, and takes whatever font of equal widths there is.
 */
export function toSvg(recording: Recording): string {
  const shown = play(recording);
  const last = lastScreen(shown);
  const width = Math.ceil(recording.columns * CELL_WIDTH + 2 * PADDING);
  const height = last.length * LINE_HEIGHT + 2 * PADDING;
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title">`,
    `<title id="title">${escaped(`A terminal in which ${recording.command} runs: ${last.at(-1) ?? ''}`)}</title>`,
    `<style>${STYLE}\n</style>`,
    `<rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8" fill="#151b23" stroke="#656c76"/>`,
    ...shown.map(lineOf),
    '</svg>',
  ].join('\n')}\n`;
}

function lineOf({ row, runs, fromMs, untilMs }: Shown): string {
  const columns = runs.reduce((sum, { text }) => sum + Array.from(text).length, 0);
  const y = PADDING + row * LINE_HEIGHT + FONT_SIZE;
  const time = untilMs === null ? `${fromMs}ms` : `${untilMs - fromMs}ms;animation-delay:${fromMs}ms`;
  // Characters of another font than the others' may be of another width.
  const length = (columns * CELL_WIDTH).toFixed(1);
  return (
    `<text x="${PADDING}" y="${y}" textLength="${length}" class="${untilMs === null ? 'stays' : 'goes'}" ` +
    `style="animation-duration:${time}">${runs.map(spanOf).join('')}</text>`
  );
}

/** Not every program that shows such pictures keeps spaces that begin a line or follow one another. */
function spanOf({ text, isBold }: Run): string {
  const kept = escaped(text.replaceAll(' ', '\u00a0'));
  return isBold ? `<tspan class="bold">${kept}</tspan>` : kept;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
