import { Command, type ErrorOptions } from 'commander'
import { printableLines } from './print.ts'
import { nearest } from './text.ts'

/** Opens the stores for one piece of work, closes them, and gives what came of it. */
export type WithStores<Stores> = <T>(work: (stores: Stores) => Promise<T>) => Promise<T>

/** A command that tells wrong usage in one line: what is wrong, what may be meant, and where the help is. */
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
      // One that is mistyped is missing as well, and commander looks for missing ones first.
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
      const [most, given] = [this.registeredArguments.length, this.args.length]
      return `Too many arguments for '${this.name()}': it takes ${most || 'none'}, not ${given}. A value with spaces needs quotes.`
    }
    const [, problem = '', suggestion] = /^(?:error: )?(.*?)\.?(?:\n\((.*)\))?$/s.exec(message) ?? []
    const sentence = `${problem.charAt(0).toUpperCase()}${problem.slice(1)}.`
    return suggestion === undefined ? sentence : `${sentence} ${suggestion}`
  }
}

/** The words that a command is called with. */
function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`
}

/** A key, or the password of an address, may have been given in the wrong place. */
function withoutSecrets(text: string): string {
  return text.replace(/cv_[0-9A-Za-z]{5,}/g, 'cv_…').replace(/\/\/[^/\s]*@/g, '//…@')
}
