/** The names of a repository (service specification, section 2.1). */
export interface RepositoryNames {
  readonly id: string;
  readonly name: string;
  readonly fullName: string;
}

/**
 * The forms in which `{repo}` may have to be sent, in the order of the tries; the specification does not show which one an
 * installation accepts (section 4.1).
 */
export const REFERENCE_FORMS = ['id', 'full_name_encoded', 'full_name', 'name'] as const;

/** One of {@link REFERENCE_FORMS}. */
export type ReferenceForm = (typeof REFERENCE_FORMS)[number];

/** A way to name a repository in a request. */
export interface Reference {
  readonly form: ReferenceForm;
  /** As sent, encoded. */
  readonly text: string;
}

/** Whether a text keeps its meaning in an address: `.` and `..` are resolved away (RFC 3986, section 5.2.4). */
function isSendable(text: string): boolean {
  return text.isWellFormed() && !text.split('/').some((segment) => segment === '.' || segment === '..');
}

/**
 * How many repositories each text matches, without regard to case.
 * @param hiddenNames short names of further repositories; null if there may be any
 */
export function countNames(
  repositories: readonly RepositoryNames[],
  hiddenNames: readonly string[] | null = [],
): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of hiddenNames ?? repositories.map((each) => each.name)) counts.set(name.toLowerCase(), 1);
  for (const { id, name, fullName } of repositories) {
    for (const text of new Set([id, name, fullName].map((each) => each.toLowerCase())))
      counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  return counts;
}

/**
 * The references to try for a repository: never one that could name another repository too, the remembered form first,
 * and each text once.
 * @param nameCounts the result of {@link countNames} for all repositories of the service
 * @param remembered the form that worked last in this installation
 */
export function referencesFor(
  repository: RepositoryNames,
  nameCounts: ReadonlyMap<string, number>,
  remembered: ReferenceForm | null,
): Reference[] {
  const { id, fullName, name } = repository;
  const plain = { id, full_name_encoded: fullName, full_name: fullName, name };
  const forms = new Set([...(remembered === null ? [] : [remembered]), ...REFERENCE_FORMS]);
  const usable = [...forms].filter(
    (form) => isSendable(plain[form]) && (nameCounts.get(plain[form].toLowerCase()) ?? 0) <= 1,
  );
  const references = new Map<string, ReferenceForm>();
  for (const form of usable) {
    const text =
      form === 'full_name'
        ? fullName.split('/').map(encodeURIComponent).join('/')
        : encodeURIComponent(plain[form]);
    if (!references.has(text)) references.set(text, form);
  }
  return [...references].map(([text, form]) => ({ form, text }));
}
