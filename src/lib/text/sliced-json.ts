/** A JSON object, of which one array is read a slice at a time. */
export interface SlicedJson {
  /** The object, with nothing in that array. */
  readonly object: unknown;
  /** The elements of the array, each parsed as it comes; nothing where there is no such array. @throws SyntaxError */
  readonly elements: Iterable<unknown>;
}

/** Bytes of a slice, more or less. */
const SLICE_BYTES = 256 * 1024;

/** The text between two elements that are objects, as `JSON.stringify` indents by one space. The comma ends the first. */
const BETWEEN = '\n  },\n  {';
const TO_COMMA = BETWEEN.indexOf(',');

/**
 * Parses JSON that `JSON.stringify` indented by one space, but without an array of very many objects in memory as text, as what the
 * text says, and as what is made of it, all at once. {@link parseWhole} parses any other layout.
 * @param key the name of the array, which is a member of the outermost object
 * @throws SyntaxError for another layout, also while the elements are read
 */
export function parseSliced(json: Buffer, key: string): SlicedJson {
  // No text within JSON has a line feed of its own.
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

/** As {@link parseSliced}, of JSON in any layout, at once. @throws SyntaxError */
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
