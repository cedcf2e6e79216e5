import { Command, type ErrorOptions } from 'commander'
import { printableLines } from './print.ts'
import { nearest } from './text.ts'

/** Opens the stores, does the work, closes the stores, and returns the result of the work. */
export type WithStores<Stores> = <T>(work: (stores: Stores) => Promise<T>) => Promise<T>

/** A command that reports wrong usage in one line: the fault, a suggestion, and the help command. */
export class PlainCommand extends Command {
  override createCommand(name?: string): Command {
    return new PlainCommand(name)
  }

  override error(message: string, options?: ErrorOptions): never {
    const sentence = withoutSecrets(this.#sentence(message, options?.code))
    return super.error(`${printableLines(sentence)} See: ${pathOf(this)} --help`, options)
  }

  #sentence(message: string, code: string | undefined): string {
    if (code === 'commander.missingMandatoryOptionValue') {
      // If the operator mistypes a required option, commander reports a missing option instead of an unknown one.
      const mistyped = this.args.find((word) => word.startsWith('--'))?.replace(/=.*/s, '')
      if (mistyped !== undefined) {
        const meant = nearest(
          mistyped,
          this.options.map(({ long }) => long ?? ''),
        )
        return `Unknown option '${mistyped}'.${meant === undefined ? '' : ` Did you mean ${meant}?`}`
      }
      const missing = this.options.filter(
        (option) => option.mandatory && this.getOptionValue(option.attributeName()) === undefined,
      )
      return missing.map(({ flags, description }) => `The option ${flags} is missing: ${description}.`).join(' ')
    }
    if (code === 'commander.excessArguments') {
      const [max, given] = [this.registeredArguments.length, this.args.length]
      return `Too many arguments for '${this.name()}': it takes ${max || 'none'}, not ${given}. A value with spaces needs quotes.`
    }
    const [, problem = '', suggestion] = /^(?:error: )?(.*?)\.?(?:\n\((.*)\))?$/s.exec(message) ?? []
    const sentence = `${problem.charAt(0).toUpperCase()}${problem.slice(1)}.`
    return suggestion === undefined ? sentence : `${sentence} ${suggestion}`
  }
}

/** The full name of a command, such as `conservatory keys create`. */
function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`
}

/** Removes API keys, and passwords in URLs: the operator may have typed them in the wrong argument. */
function withoutSecrets(text: string): string {
  return text.replace(/cv_[0-9A-Za-z]{5,}/g, 'cv_…').replace(/\/\/[^/\s]*@/g, '//…@')
}
