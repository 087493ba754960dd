/** A JSON object with one array that is read a slice at a time. */
export interface SlicedJson {
  /** The object, with that array empty. */
  readonly object: unknown;
  /** The elements of the array, each parsed on the way; nothing if there is no such array. @throws SyntaxError */
  readonly elements: Iterable<unknown>;
}

/** Bytes of a slice, more or less. */
const SLICE_BYTES = 256 * 1024;

/** The text between two elements that are objects, as `JSON.stringify` indents by one space. The comma ends the first. */
const BETWEEN = '\n  },\n  {';
const TO_COMMA = BETWEEN.indexOf(',');

/**
 * Parses JSON that `JSON.stringify` indented by one space. An array of very many objects is never in memory as text, as
 * parsed values and as results at the same time. {@link parseWhole} parses any other layout.
 * @param key the name of the array, which is a member of the outermost object
 * @throws SyntaxError for another layout, also while the elements are read
 */
export function parseSliced(json: Buffer, key: string): SlicedJson {
  // No text within JSON contains a line feed.
  const opening = `\n ${JSON.stringify(key)}: [`;
  const found = json.indexOf(opening);
  const start = found + opening.length;
  const end = json.indexOf('\n ]', start);
  if (found === -1 || end === -1) throw new SyntaxError('another layout');
  const rest = json.toString('utf8', 0, start) + json.toString('utf8', end + '\n '.length);
  const object = parse(rest);
  // Only then is the array the member that it seems to be.
  if (JSON.stringify(object, null, 1) !== rest.trimEnd()) throw new SyntaxError('another layout');
  return { object, elements: elementsBetween(json, start, end) };
}

/** As {@link parseSliced}, for JSON in any layout, as a whole. @throws SyntaxError */
export function parseWhole(json: Buffer, key: string): SlicedJson {
  const object = parse(json.toString('utf8'));
  if (typeof object !== 'object' || object === null || Array.isArray(object)) return { object, elements: [] };
  const elements: unknown = Reflect.get(object, key);
  if (!Array.isArray(elements)) return { object, elements: [] };
  return { object: { ...object, [key]: [] }, elements };
}

function parse(text: string): unknown {
  return JSON.parse(text);
}

function* elementsBetween(json: Buffer, start: number, end: number): Generator {
  for (let at = start; at < end;) {
    const cut = json.indexOf(BETWEEN, at + SLICE_BYTES);
    const stop = cut === -1 || cut > end ? end : cut + TO_COMMA;
    const elements = parse(`[${json.toString('utf8', at, stop)}]`);
    if (Array.isArray(elements)) yield* elements;
    at = stop + 1;
  }
}
