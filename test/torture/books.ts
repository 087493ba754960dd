import { FakeService, type FakeRepository } from '../support/fake-service.ts';

/** A state of a repository, by its number: every file says it, and the names of the files do. */
const FILES = 6;

/** What a repository holds in a state: each has other bytes in all files, and another name among them. */
function filesOf(name: string, state: number): Map<string, string> {
  const files = new Map<string, string>();
  for (let file = 0; file < FILES; file += 1) {
    const path = `d${file % 2}/f${file}${file < 2 ? '.xlsx' : '.txt'}`;
    files.set(path, `${state} of ${name} in ${path}`);
  }
  return files.set(`only/in-${state}.xlsx`, `${state} of ${name}`);
}

/** A service whose repositories go from state to state. */
export class Books {
  readonly service: FakeService;
  private readonly states = new Map<FakeRepository, number>();
  private readonly byName = new Map<string, FakeRepository>();

  private constructor(service: FakeService) {
    this.service = service;
  }

  static async open(repositories: number): Promise<Books> {
    // So that a poll takes few requests, whatever there is.
    const books = new Books(await FakeService.start({ pageSize: 1000 }));
    for (let at = 0; at < repositories; at += 1) {
      const repository = books.service.addRepository(`team-${at % 7}/Book ${at}`);
      books.byName.set(repository.fullName, repository);
      books.change(repository);
    }
    return books;
  }

  get names(): readonly string[] {
    return [...this.byName.keys()];
  }

  /** Takes some repositories to their next state, each at once. */
  changeSome(count: number): void {
    const { repositories } = this.service;
    for (let change = 0; change < count; change += 1) {
      const repository = repositories[Math.floor(Math.random() * repositories.length)];
      if (repository !== undefined) this.change(repository);
    }
  }

  /** The number of the state that a repository is in. */
  stateOf(name: string): number {
    const repository = this.byName.get(name);
    return (repository === undefined ? null : this.states.get(repository)) ?? 0;
  }

  private change(repository: FakeRepository): void {
    const state = (this.states.get(repository) ?? 0) + 1;
    this.states.set(repository, state);
    this.service.remove(repository, 'main', `only/in-${state - 1}.xlsx`);
    for (const [path, text] of filesOf(repository.fullName, state))
      this.service.write(repository, 'main', path, text);
  }
}

/** The number of the state that files are in. @returns why they are in none, as a text */
export function stateIn(name: string, files: ReadonlyMap<string, string>): number | string {
  const said = /^\d+/.exec([...files.values()][0] ?? '')?.[0];
  if (said === undefined) return `no state: ${describe(files)}`;
  const expected = filesOf(name, Number(said));
  const isWhole =
    files.size === expected.size && [...expected].every(([path, text]) => files.get(path) === text);
  return isWhole ? Number(said) : `a mixture: ${describe(files)}`;
}

function describe(files: ReadonlyMap<string, string>): string {
  return JSON.stringify([...files]).slice(0, 600);
}
