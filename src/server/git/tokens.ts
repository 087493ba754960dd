const CONTINUATION_MASK = 0xc0;
const CONTINUATION = 0x80;
const LONGEST_CHARACTER_BYTES = 4;

/** Reads UTF-8 up to a limit, and leaves out a character that the limit would tear. */
export function textUpTo(bytes: Buffer, limitBytes: number): string {
  if (bytes.length <= limitBytes) return bytes.toString('utf8');
  let end = limitBytes;
  const least = Math.max(0, limitBytes - LONGEST_CHARACTER_BYTES);
  while (end > least && ((bytes[end] ?? 0) & CONTINUATION_MASK) === CONTINUATION) end -= 1;
  return bytes.toString('utf8', 0, end);
}

/**
 * Cuts chunks of output into NUL-terminated tokens; the cut is on bytes, so that no character is torn.
 * @param onToken is told whether the token was longer than the limit; it is given up to there
 * @param limitBytes no more of a token is held
 */
export function splitTokens(
  onToken: (token: string, isCut: boolean) => void,
  limitBytes = Infinity,
): (chunk: Buffer) => void {
  // One byte more than the limit tells that a token is longer.
  const heldBytes = limitBytes + 1;
  let rest: Buffer = Buffer.alloc(0);
  const give = (bytes: Buffer): void => onToken(textUpTo(bytes, limitBytes), bytes.length > limitBytes);
  const joined = (piece: Buffer): Buffer =>
    rest.length === 0 ? piece : Buffer.concat([rest, piece.subarray(0, heldBytes - rest.length)]);
  return (chunk) => {
    let from = 0;
    for (let end = chunk.indexOf(0, from); end !== -1; end = chunk.indexOf(0, from)) {
      give(joined(chunk.subarray(from, end)));
      rest = Buffer.alloc(0);
      from = end + 1;
    }
    rest = joined(chunk.subarray(from, Math.min(chunk.length, from + heldBytes)));
  };
}
