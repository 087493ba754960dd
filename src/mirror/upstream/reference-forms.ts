import { MirrorError } from '../../lib/errors/errors.ts';
import { ContentsRefusedError } from './failures.ts';
import type { Repository } from './listing.ts';

/**
 * The forms in which `{repo}` may have to be sent; the specification does not show which one an installation takes
 * (section 4.1). In the order in which they are tried.
 */
export const REFERENCE_FORMS = ['id', 'full_name_encoded', 'full_name', 'name'] as const;

/** One of {@link REFERENCE_FORMS}. */
export type ReferenceForm = (typeof REFERENCE_FORMS)[number];

/** A way to name a repository in a request. */
export interface Reference {
  readonly form: ReferenceForm;
  /** As it is sent, encoded. */
  readonly text: string;
}

/** The text that names a repository in a form, before it is encoded. */
function plainText(repository: Repository, form: ReferenceForm): string {
  switch (form) {
    case 'id':
      return repository.id;
    case 'full_name_encoded':
    case 'full_name':
      return repository.fullName;
    case 'name':
      return repository.name;
  }
}

function encoded(repository: Repository, form: ReferenceForm): string {
  const text = plainText(repository, form);
  return form === 'full_name' ? text.split('/').map(encodeURIComponent).join('/') : encodeURIComponent(text);
}

/** Whether a text keeps its meaning in an address: `.` and `..` are resolved away (RFC 3986, section 5.2.4). */
function isSendable(text: string): boolean {
  return text.isWellFormed() && !text.split('/').some((segment) => segment === '.' || segment === '..');
}

/** How many repositories answer to each text, seen without case. */
export function countNames(repositories: readonly Repository[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { id, name, fullName } of repositories) {
    for (const text of new Set([id, name, fullName].map((each) => each.toLowerCase()))) {
      counts.set(text, (counts.get(text) ?? 0) + 1);
    }
  }
  return counts;
}

/**
 * The references to try for a repository: never one that could name another repository too, the remembered form first,
 * and each text once.
 * @param nameCounts what {@link countNames} gives for all repositories of the service
 * @param remembered the form that worked last in this installation
 */
export function referencesFor(
  repository: Repository,
  nameCounts: ReadonlyMap<string, number>,
  remembered: ReferenceForm | null,
): Reference[] {
  const forms =
    remembered === null
      ? REFERENCE_FORMS
      : [remembered, ...REFERENCE_FORMS.filter((form) => form !== remembered)];
  const references: Reference[] = [];
  for (const form of forms) {
    if (!isSendable(plainText(repository, form))) continue;
    const unambiguous = (nameCounts.get(plainText(repository, form).toLowerCase()) ?? 0) <= 1;
    const text = encoded(repository, form);
    if (unambiguous && !references.some((each) => each.text === text)) references.push({ form, text });
  }
  return references;
}

/** Which form of reference an installation takes: found by trying, remembered, found again when it stops working. */
export interface ReferenceMemory {
  form: ReferenceForm | null;
}

export interface ReferenceContext {
  /** The form that worked last, for any repository; outlives the process. */
  readonly memory: ReferenceMemory;
  /** The form that last gave a repository's contents, by id: installations may take several, for other repositories. */
  readonly proven: Map<string, ReferenceForm>;
  /** From {@link countNames}, over all repositories of the last list. */
  readonly nameCounts: () => ReadonlyMap<string, number>;
}

/** The reference that is the likeliest to be understood; null when there is none that names the repository alone. */
export function bestReference(context: ReferenceContext, repository: Repository): Reference | null {
  const form = context.proven.get(repository.id) ?? context.memory.form;
  return referencesFor(repository, context.nameCounts(), form)[0] ?? null;
}

/** Errors with which an installation may answer a form of reference that it does not take. */
const ERRORS_OF_FORMS: ReadonlySet<string> = new Set([
  'contents.wrong_kind',
  'contents.forbidden',
  'service.wrong_kind',
]);

/** A failure that another form may not meet. Where no key is let in, to go on would be to try it again and again. */
export function failureOfForm(error: unknown): { readonly kind: 'failed'; readonly error: MirrorError } {
  const isOfForm = error instanceof MirrorError && ERRORS_OF_FORMS.has(error.code);
  if (!isOfForm || error instanceof ContentsRefusedError) throw error;
  return { kind: 'failed', error };
}

/** The error where the only form left is a short name that others share. */
export function onlyAmbiguous(repository: Repository): MirrorError {
  return new MirrorError(
    'contents.not_found',
    `No reference that names ${repository.fullName} alone finds its contents, and the short name ${JSON.stringify(repository.name)} is shared with others.`,
    { hint: 'Rename one of the repositories of that name in the service.' },
  );
}
