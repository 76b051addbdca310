import { withBase } from 'vitepress';
import DefaultTheme from 'vitepress/theme';
import { h } from 'vue';
import overview from '../../../docs/console/overview.png';
import './style.css';

const picture = () =>
  h('a', { class: 'hero-picture', href: withBase('/monitoring.html#the-console') }, [
    h('img', { src: overview, alt: 'The console: decisions and refusals per second, the busiest keys and rules' }),
  ]);

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { 'home-hero-image': picture }),
};
