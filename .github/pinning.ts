/** An action of a workflow, or an image that something is built from or with, and what it is pinned to. */
export interface Reference {
  readonly kind: 'action' | 'image';
  /** `owner/repository`, with a folder where the action lies in one; an image as it is written, without its tag. */
  readonly name: string;
  /** What it moves under; undefined where only a commit is written. */
  readonly tag: string | undefined;
  /** A commit in 40 digits, or `sha256:` and a digest in 64; undefined where the tag alone decides. */
  readonly pin: string | undefined;
}

const COMMIT = /^[0-9a-f]{40}$/;

/** `uses:` with an action of another repository, and the tag in a comment, as Dependabot reads and writes it. */
const USES = /^(?<before>\s*(?:- +)?uses: +)(?<name>[\w.-]+\/[\w./-]+)@(?<at>[^\s#]+)(?<comment> +# *\S+)?/;

/** Where an image is named: a stage of a Dockerfile, and what builds in a workflow, emulates and lists contents. */
const IMAGE =
  /^(?<before>FROM +(?:--\S+ +)*|\s*driver-opts: image=|\s*sbom: generator=|\s*image: )(?<name>[^\s:@]+(?::\d+\/[^\s:@]+)?)(?::(?<tag>[\w.-]+))?(?:@(?<pin>sha256:[0-9a-f]{64}))?(?=\s|$)/i;

/** The name that a stage of a Dockerfile gives itself. */
const STAGE = /^FROM .* AS +(?<stage>\S+)/i;

/** Finds one line's reference, and how the line reads with another pin. */
function referenceIn(
  line: string,
): { readonly reference: Reference; readonly written: (pin: string) => string } | undefined {
  const uses = USES.exec(line)?.groups;
  if (uses !== undefined) {
    const { before = '', name = '', at = '', comment = '' } = uses;
    const rest = line.slice(`${before}${name}@${at}`.length);
    if (!COMMIT.test(at)) {
      const written = (pin: string): string => `${before}${name}@${pin} # ${at}${rest}`;
      return { reference: { kind: 'action', name, tag: at, pin: undefined }, written };
    }
    const tag = comment === '' ? undefined : comment.replace(/^ +# */, '');
    return {
      reference: { kind: 'action', name, tag, pin: at },
      written: (pin) => `${before}${name}@${pin}${rest}`,
    };
  }
  const found = IMAGE.exec(line);
  if (found?.groups === undefined) return undefined;
  const { before = '', name = '', tag = 'latest', pin } = found.groups;
  const rest = line.slice(found[0].length);
  return {
    reference: { kind: 'image', name, tag, pin },
    written: (pin) => `${before}${name}:${tag}@${pin}${rest}`,
  };
}

/** What every line of a text refers to, but for stages of its own and the empty image. */
function lines(text: string): { readonly line: string; readonly found: ReturnType<typeof referenceIn> }[] {
  const own = new Set(['scratch']);
  return text.split('\n').map((line) => {
    const found = referenceIn(line);
    const isOwn = found?.reference.kind === 'image' && own.has(found.reference.name);
    const stage = STAGE.exec(line)?.groups?.['stage'];
    if (stage !== undefined) own.add(stage);
    return { line, found: isOwn ? undefined : found };
  });
}

/** The actions and images that a workflow or a Dockerfile takes from elsewhere, in their order. */
export function references(text: string): Reference[] {
  return lines(text).flatMap(({ found }) => (found === undefined ? [] : [found.reference]));
}

/**
 * A workflow or a Dockerfile with other pins; everything else stays as it is, byte for byte.
 * @param pinOf gives the pin of a reference, or undefined to leave it as it is
 */
export function withPins(text: string, pinOf: (reference: Reference) => string | undefined): string {
  const written = lines(text).map(({ line, found }) => {
    const pin = found === undefined ? undefined : pinOf(found.reference);
    return found === undefined || pin === undefined ? line : found.written(pin);
  });
  return written.join('\n');
}

/**
 * The commit of a tag, from what `git ls-remote URL TAG TAG^{}` printed. A tag that somebody signed or described is an object of its
 * own: what it stands for is in the line with `^{}`.
 */
export function commitOf(printed: string, tag: string): string | undefined {
  const commits = new Map(
    printed.split('\n').map((line) => {
      const [commit = '', name = ''] = line.split('\t');
      return [name, commit] as const;
    }),
  );
  const commit = commits.get(`refs/tags/${tag}^{}`) ?? commits.get(`refs/tags/${tag}`);
  return commit !== undefined && COMMIT.test(commit) ? commit : undefined;
}

/** Where a registry has the manifest of an image; a name without a host is one of Docker Hub's. */
export function manifestAddress(name: string, tag: string): URL {
  const [first = '', ...rest] = name.split('/');
  const hasHost = rest.length > 0 && (/[.:]/.test(first) || first === 'localhost');
  const path = hasHost ? rest.join('/') : name;
  if (hasHost && first !== 'docker.io') return new URL(`https://${first}/v2/${path}/manifests/${tag}`);
  const repository = path.includes('/') ? path : `library/${path}`;
  return new URL(`https://registry-1.docker.io/v2/${repository}/manifests/${tag}`);
}

/**
 * Where a registry that answers 401 gives tokens to anybody, from its `WWW-Authenticate`.
 * Source: https://distribution.github.io/distribution/spec/auth/token/
 */
export function tokenAddress(challenge: string): URL | undefined {
  if (!/^Bearer /i.test(challenge)) return undefined;
  const values = new Map(
    [...challenge.matchAll(/(\w+)="([^"]*)"/g)].map(([, key = '', value = '']) => [key, value]),
  );
  const realm = values.get('realm');
  if (realm === undefined) return undefined;
  const address = new URL(realm);
  for (const key of ['service', 'scope']) {
    const value = values.get(key);
    if (value !== undefined) address.searchParams.set(key, value);
  }
  return address;
}

/**
 * The token in what a registry's address for tokens answers, which has it under one of two names.
 * @throws Error if there is none
 */
export function tokenIn(answer: unknown): string {
  if (typeof answer === 'object' && answer !== null) {
    if ('token' in answer && typeof answer.token === 'string') return answer.token;
    if ('access_token' in answer && typeof answer.access_token === 'string') return answer.access_token;
  }
  throw new Error('the registry gives no token');
}
