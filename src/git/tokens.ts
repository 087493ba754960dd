/** Cuts chunks of output into NUL-terminated tokens; the cut is on bytes, so that no character is torn. */
export function splitTokens(onToken: (token: string) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let from = 0;
    for (let end = bytes.indexOf(0, from); end !== -1; end = bytes.indexOf(0, from)) {
      onToken(bytes.toString('utf8', from, end));
      from = end + 1;
    }
    rest = bytes.subarray(from);
  };
}
