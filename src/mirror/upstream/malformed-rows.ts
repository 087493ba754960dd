/** A row of a list of the service that could not be understood, as far as it can be read. */
export interface MalformedRow {
  /** The repository that it names; null where it names none that can be read. */
  readonly repository: string | null;
  /** The name or id of what it is about; null where it has neither. */
  readonly name: string | null;
  /** The first field that is wrong, by its path, such as `version.id`; empty for the row itself. */
  readonly field: string;
  /** Its place in the answer that it came in, from 1. */
  readonly position: number;
}

/** Something wrong with a row, as its schema tells it. */
interface Issue {
  readonly path: readonly PropertyKey[];
}

/** Reads of a row what can be read. @param issues what is wrong with it @param at its place in the answer, from 0 */
export function malformedRow(row: unknown, issues: readonly Issue[], at: number): MalformedRow {
  const fields: Partial<Record<string, unknown>> = typeof row === 'object' && row !== null ? { ...row } : {};
  const [id, name, integration] = ['id', 'name', 'integration'].map((field) => textOf(fields[field]));
  return {
    repository: integration ?? repositoryIn(id, name),
    name: (id ?? name)?.slice(0, MAX_SHOWN_LENGTH) ?? null,
    field: issues[0]?.path.map(String).join('.') ?? '',
    position: at + 1,
  };
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

/** More of a name tells nobody more. */
const MAX_SHOWN_LENGTH = 200;

/** A workbook's id is the name of its repository, and its own name after that (service specification, section 2.2). */
function repositoryIn(id: string | null | undefined, name: string | null | undefined): string | null {
  if (typeof id !== 'string' || typeof name !== 'string' || !name.startsWith('/') || !id.endsWith(name))
    return null;
  return id.length > name.length ? id.slice(0, -name.length) : null;
}

/** So many rows are named one by one. */
const ROWS_NAMED = 5;

/**
 * Names rows that could not be understood, a sentence each.
 * @param list the name of the list, such as `workbooks`
 * @param consequence says what follows from a row
 */
export function malformedSentences(
  list: string,
  rows: readonly MalformedRow[],
  consequence: (row: MalformedRow) => string,
): readonly string[] {
  const more = rows.length - ROWS_NAMED;
  // The worst come first.
  const sorted = [...rows].sort((a, b) => Number(a.repository !== null) - Number(b.repository !== null));
  return [
    ...sorted.slice(0, ROWS_NAMED).map((each) => {
      const { name, field, position } = each;
      const row = name === null ? `row ${position}` : `the row of ${JSON.stringify(name)} (row ${position})`;
      const fault =
        field === '' ? 'is no object' : `has nothing usable in its field ${JSON.stringify(field)}`;
      return `in the list of ${list}, ${row} ${fault}: ${consequence(each)}`;
    }),
    ...(more > 0 ? [`in the list of ${list}, ${more} more rows are malformed`] : []),
  ];
}
