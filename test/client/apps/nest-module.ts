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

/** Calls decorators as functions, since Node does not support their syntax. */
function decorate(name: keyof AppController, ...decorators: readonly MethodDecorator[]): void {
  const method = Object.getOwnPropertyDescriptor(AppController.prototype, name) as PropertyDescriptor; // it is there
  for (const decorator of decorators) decorator(AppController.prototype, name, method);
}
decorate('hello', Get('/'));
decorate('health', Get('/health'), SkipLimit());
decorate('own', Get('/own'), Limit({ onRefused: ({ status }) => new HttpException(OWN_REFUSAL, status) }));
Controller()(AppController);

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
  controllers: [AppController],
  imports: [
    WeirModule.forRootAsync({
      imports: [SettingsModule],
      inject: [Settings],
      useFactory: (settings: Settings) => settings.options,
    }),
  ],
})(AppModule);
