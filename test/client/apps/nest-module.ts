import 'reflect-metadata';
import { Controller, Get, HttpException, Module } from '@nestjs/common';
import { Limit, type NestRequest, SkipLimit, WeirModule } from 'weir-client/nestjs';
import { OWN_REFUSAL, optionsFor } from './options.ts';

class AppController {
  hello(): string {
    return 'hello';
  }
  health(): string {
    return 'hello';
  }
  own(): string {
    return 'hello';
  }
}

/** Each request costs as much as its controller says, unless its handler says otherwise. */
class CostlyController {
  search(): string {
    return 'found';
  }
  status(): string {
    return 'ok';
  }
  free(): string {
    return 'free';
  }
}

/** Calls decorators as functions, since Node does not support their syntax. */
function decorate(
  target: { readonly prototype: object },
  name: string,
  ...decorators: readonly MethodDecorator[]
): void {
  const method = Object.getOwnPropertyDescriptor(target.prototype, name) as PropertyDescriptor; // it is there
  for (const decorator of decorators) decorator(target.prototype, name, method);
}
decorate(AppController, 'hello', Get('/'));
decorate(AppController, 'health', Get('/health'), SkipLimit());
const refuse = Limit({ onRefused: ({ status }) => new HttpException(OWN_REFUSAL, status) });
decorate(AppController, 'own', Get('/own'), refuse);
Controller()(AppController);
decorate(CostlyController, 'search', Get('/search'));
decorate(CostlyController, 'status', Get('/status'), Limit({ cost: () => 1 }));
decorate(CostlyController, 'free', Get('/free'), SkipLimit());
Limit({ cost: () => 3 })(CostlyController);
Controller('/costly')(CostlyController);

const { skip: _, ...options } = optionsFor<NestRequest>(
  (request, name) => request.headers[name]?.toString(),
  (request) => request.url,
);

class Settings {
  readonly options = options;
}
class SettingsModule {}
Module({ providers: [Settings], exports: [Settings] })(SettingsModule);

export class AppModule {}
Module({
  controllers: [AppController, CostlyController],
  imports: [
    WeirModule.forRootAsync({
      imports: [SettingsModule],
      inject: [Settings],
      useFactory: (settings: Settings) => settings.options,
    }),
  ],
})(AppModule);
