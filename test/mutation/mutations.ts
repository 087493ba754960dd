import { parseAst } from 'rolldown/parseAst';

/** A range of characters; the end is exclusive. */
interface Range {
  readonly start: number;
  readonly end: number;
}

/** One change of one operator or condition: the text replaces the characters. */
export interface Mutation extends Range {
  readonly text: string;
  /** The expression that has the operator or condition. */
  readonly whole: Range;
}

const OTHER_OPERATORS: Readonly<Record<string, string>> = {
  '===': '!==',
  '!==': '===',
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '+': '-',
  '-': '+',
  '*': '/',
  '/': '*',
  '%': '*',
  '&&': '||',
  '||': '&&',
};

interface Node extends Range {
  readonly type: string;
  readonly [field: string]: unknown;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && 'start' in value;
}

/** The source with a change made. */
export function mutated(source: string, { start, end, text }: Mutation): string {
  return source.slice(0, start) + text + source.slice(end);
}

/**
 * The source with all these changes, each made only if the function `name` returns true for its number, so that one set of transformed and
 * bundled files serves all.
 */
export function switched(source: string, mutations: ReadonlyMap<number, Mutation>, name: string): string {
  const inserted = [...mutations].flatMap(([id, mutation]) => {
    const { start, end } = mutation.whole;
    const text = mutated(source, mutation).slice(start, end - source.length || undefined);
    return [
      { at: start, length: end - start, text: `(${name}(${id})?(${text}):(` },
      { at: end, length: 0, text: '))' },
    ];
  });
  let result = source;
  // Insert from the last to the first. Of those with the same start, the outer one is inserted last and so comes first.
  for (const { at, text } of inserted.sort((a, b) => b.at - a.at || a.length - b.length))
    result = result.slice(0, at) + text + result.slice(at);
  return result;
}

/** Lists the operators and conditions of a module, each with its replacement. @throws Error if it cannot be parsed */
export function mutationsOf(source: string): Mutation[] {
  const found: Mutation[] = [];
  const visit = (node: Node): void => {
    found.push(...mutationsAt(node, source));
    for (const value of Object.values(node))
      for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) visit(child);
  };
  visit(parseAst(source, { lang: 'ts' }) as unknown as Node);
  return found;
}

function mutationsAt(node: Node, source: string): Mutation[] {
  switch (node.type) {
    case 'BinaryExpression':
    case 'LogicalExpression': {
      return operatorOf(node, source);
    }
    case 'UnaryExpression': {
      return node['operator'] === '!'
        ? [{ start: node.start, end: node.start + 1, text: '', whole: node }]
        : [];
    }
    case 'IfStatement':
    case 'WhileStatement':
    case 'ConditionalExpression': {
      return negated(node['test'] as Node, source);
    }
    default: {
      return [];
    }
  }
}

function operatorOf(whole: Node, source: string): Mutation[] {
  const { operator, left, right } = whole;
  const text = OTHER_OPERATORS[String(operator)];
  // The + of texts is left alone: without it, nothing works.
  if (
    text === undefined ||
    (operator === '+' && /['"`]/.test(source.slice((left as Node).start, (right as Node).end)))
  )
    return [];
  const start = source.indexOf(String(operator), (left as Node).end);
  if (start < 0 || start >= (right as Node).start) throw new Error(`no ${String(operator)} at ${start}`);
  return [{ start, end: start + String(operator).length, text, whole }];
}

/** A condition is not negated if its operator is a place already. */
function negated(whole: Node, source: string): Mutation[] {
  const { type, operator, start, end } = whole;
  const hasOwnPlace =
    (type === 'BinaryExpression' && String(operator) in OTHER_OPERATORS) || type === 'UnaryExpression';
  return hasOwnPlace ? [] : [{ start, end, text: `!(${source.slice(start, end)})`, whole }];
}
